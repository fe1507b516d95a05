# Ten threads answer a hundred requests each. A request makes N strings of very different sizes and
# keeps every tenth of them: what is dropped leaves holes between what stays.
require_relative "marks"

n = Integer(ARGV.fetch(0, 100))
kept = Array.new(10) { [] }
Marks.timed do
  threads = kept.each_with_index.map do |mine, number|
    Thread.new do
      random = Random.new(number)
      100.times do
        strings = Array.new(n) { "x" * (97 + 10 * random.rand(4000)) }
        strings.shuffle!(random: random)
        mine.concat(strings.pop(n / 10))
      end
    end
  end
  threads.each(&:join)
  GC.start
end
live = kept.sum { |mine| mine.sum(&:bytesize) }
Marks.at("end", live)
Marks.rest("idle", live)
