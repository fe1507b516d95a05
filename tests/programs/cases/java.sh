packages='openjdk-17-jdk-headless'
needs='java javac'
maps='java'
long=yes
limit=300

prepare() {
    cat >Work.java <<'JAVA'
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import java.util.zip.*;

public class Work {
    public static void main(String[] a) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Long>> parts = new ArrayList<>();
        for (int t = 0; t < 8; t++) {
            final int seed = t;
            parts.add(pool.submit(() -> {
                Map<String, Integer> counts = new TreeMap<>();
                Random random = new Random(seed);
                for (int i = 0; i < 60000; i++) counts.merge("k" + random.nextInt(5000), i, Integer::sum);
                byte[] text = counts.toString().getBytes();
                Deflater deflater = new Deflater();
                deflater.setInput(text);
                deflater.finish();
                byte[] out = new byte[text.length + 100];
                int length = deflater.deflate(out);
                deflater.end();
                CRC32 crc = new CRC32();
                crc.update(out, 0, length);
                return crc.getValue();
            }));
        }
        for (Future<Long> part : parts) System.out.println(part.get());
        pool.shutdown();
        Object nothing = null;
        try { nothing.toString(); } catch (NullPointerException e) { System.out.println("null is found"); }
        System.out.println(IntStream.range(0, 200000).parallel().mapToObj(Integer::toString).collect(Collectors.joining()).hashCode());
    }
}
JAVA
}

measure() {
    javac -d . "$shared/Work.java"
    java -Xmx256m -cp . Work
    java -Xmx256m -XX:+UseSerialGC -cp . Work | md5sum
}
