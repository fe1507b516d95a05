packages=ruby
needs=ruby
maps=ruby

measure() {
    ruby -rjson -rdigest -rzlib -e '
        srand 42
        words = Array.new(80_000) { Array.new(1 + rand(30)) { (97 + rand(12)).chr }.join }
        groups = words.group_by { |w| w[0, 2] }.sort.to_h
        text = JSON.generate(groups)
        raise unless JSON.parse(text) == groups
        puts Digest::MD5.hexdigest(text), text.bytesize
        puts Marshal.load(Marshal.dump(groups)).size
        puts Zlib::Inflate.inflate(Zlib::Deflate.deflate(text)) == text
        puts words.join(" ").gsub(/a[b-f]+/) { |m| m.upcase }.scan(/[A-F]{4}/).size
        threads = Array.new(8) do |t|
          Thread.new do
            random = Random.new(t)
            20.times.sum do
              strings = Array.new(500) { "x" * (97 + 10 * random.rand(400)) }
              strings.shuffle!(random: random)
              strings.shift(450)
              GC.start if random.rand(20).zero?
              strings.sum(&:size)
            end
          end
        end
        puts threads.map(&:value).inspect
        GC.start
        GC.compact if GC.respond_to?(:compact)
        3.times do |i|
          pid = fork { words.map!(&:reverse); exit!(words.size == 80_000 ? i : 9) }
          Process.wait pid
          puts $?.exitstatus
        end
        ractors = Array.new(2) { |i| Ractor.new(i) { |n| (1..20_000).map { |x| (x * n).to_s }.join.size } } rescue []
        puts ractors.map(&:take).inspect
        warn "done"
        exit 5' 2>stderr || echo "exit $?"
    grep -v 'Ractor is experimental' stderr >&2
}
