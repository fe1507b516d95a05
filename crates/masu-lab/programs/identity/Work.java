import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

/** Says each moment on a line. At the first and the last it waits for an answer; at the second it works until one comes. */
public class Work {
    static void moment(String name) {
        System.out.println(name);
        System.out.flush();
    }

    static byte[] packed(byte[] text) throws Exception {
        Deflater deflater = new Deflater();
        deflater.setInput(text);
        deflater.finish();
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        byte[] part = new byte[8192];
        while (!deflater.finished()) out.write(part, 0, deflater.deflate(part));
        deflater.end();
        return out.toByteArray();
    }

    public static void main(String[] arguments) throws Exception {
        moment("start");
        System.in.read();
        Map<Integer, Object> kept = new HashMap<>();
        moment("load");
        for (int turn = 0; System.in.available() == 0; turn++) {
            byte[] text = ("document " + turn + " ").repeat(turn % 5000).getBytes();
            Inflater inflater = new Inflater();
            inflater.setInput(packed(text));
            inflater.inflate(new byte[text.length]);
            ByteBuffer direct = ByteBuffer.allocateDirect(1000 + text.length);
            direct.put(text);
            kept.put(turn % 200, new Object[] {text, direct});
            inflater.end();
        }
        System.in.read();
        kept.clear();
        System.gc();
        moment("rest");
        System.in.read();
    }
}
