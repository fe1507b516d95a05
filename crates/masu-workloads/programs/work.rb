# Strings, hashes, JSON and threads, with the collector at work.
require "json"
require "digest/md5"
srand 42
words = Array.new(120_000) { Array.new(1 + rand(20)) { (97 + rand(12)).chr }.join }
groups = words.group_by { |word| word[0, 2] }.sort.to_h
text = JSON.generate(groups)
raise "another text" unless JSON.parse(text) == groups
puts Digest::MD5.hexdigest(text), text.bytesize
puts Marshal.load(Marshal.dump(groups)).size
puts words.join(" ").gsub(/a[b-f]+/) { |match| match.upcase }.scan(/[A-F]{4}/).size
threads = Array.new(8) do |number|
  Thread.new do
    random = Random.new(number)
    20.times.sum do
      strings = Array.new(600) { "x" * (97 + 10 * random.rand(400)) }
      strings.shuffle!(random: random)
      strings.shift(450)
      strings.sum(&:size)
    end
  end
end
puts threads.map(&:value).inspect
