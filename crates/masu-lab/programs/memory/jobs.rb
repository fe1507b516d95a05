# A job runner: ten threads take jobs from a queue. Work comes in bursts, and between them the
# threads sleep. A job parses a document, makes another one of it, and lets go of both.
require "json"
require "digest/md5"
require_relative "marks"

queue = Thread::Queue.new
done = Thread::Queue.new
10.times do |number|
  Thread.new do
    random = Random.new(number)
    loop do
      queue.pop
      rows = Array.new(50 + random.rand(800)) { |n| { "n" => n, "name" => "row #{n}", "note" => "x" * random.rand(300) } }
      text = JSON.generate(rows)
      index = JSON.parse(text).group_by { |row| row["n"] % 17 }
      done << Digest::MD5.hexdigest(index.map { |key, group| "#{key}:#{group.size}" }.join(text[0, 100_000]))
    end
  end
end
burst = lambda do |jobs|
  jobs.times { |n| queue << n }
  jobs.times { done.pop }
end
Marks.at("ready")
Marks.timed do
  4.times do
    burst.(60)
    sleep 0.4
  end
  burst.(60)
end
Marks.at("burst")
Marks.rest("idle")
