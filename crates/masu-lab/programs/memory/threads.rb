# Eight threads that parse, build and drop documents, each with a cache of its own that turns over.
require "json"
require_relative "marks"

documents = 0
Marks.timed do
  threads = Array.new(8) do |number|
    Thread.new do
      random = Random.new(number)
      cache = {}
      300.times do |step|
        records = Array.new(40) { |n| { "id" => n, "tags" => %w[a b c].sample(2, random: random), "text" => "t" * random.rand(900) } }
        text = JSON.generate(records)
        parsed = JSON.parse(text)
        cache[random.rand(120)] = parsed.select { |record| record["id"].even? }
        cache[:text] = text.tr("a-m", "n-z") if (step % 5).zero?
      end
      cache.size
    end
  end
  documents = threads.sum(&:value)
  GC.start
end
Marks.at("end")
Marks.rest("idle")
abort "nothing was kept" if documents.zero?
