# A job runner as Sidekiq is one: ten threads take jobs from a queue. A job parses a document, makes another one of it,
# and lets go of both. A line with its number enqueues it; the answer says that it is done.
require "json"
require "digest/md5"
require "socket"

queue = Thread::Queue.new
10.times do
  Thread.new do
    loop do
      number, socket = queue.pop
      random = Random.new(number)
      rows = Array.new(5 + random.rand(number % 20 == 0 ? 800 : 80)) do |n|
        { "n" => n, "name" => "row #{n}", "note" => "x" * random.rand(300) }
      end
      text = JSON.generate(rows)
      index = JSON.parse(text).group_by { |row| row["n"] % 17 }
      digest = Digest::MD5.hexdigest(index.map { |key, group| "#{key}:#{group.size}" }.join(text[0, 100_000]))
      socket.write("ok #{number} #{digest}\n")
    end
  end
end
server = UNIXServer.new(ARGV.fetch(0))
loop do
  Thread.new(server.accept) do |socket|
    while (line = socket.gets)
      queue << [Integer(line), socket]
    end
  end
end
