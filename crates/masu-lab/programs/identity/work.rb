# Says each moment on a line. At the first and the last it waits for an answer; at the second it works until one comes.
require "json"

def moment(name)
  puts name
  $stdout.flush
end

def documents(count)
  (0...count).map { |i| JSON.parse(JSON.generate({ id: i, tags: (0...i % 20).map(&:to_s) })) }
end

moment "start"
$stdin.gets
kept = {}
done = false
threads = (0...4).map do |n|
  Thread.new do
    turn = n
    until done
      turn += 4
      kept[turn % 50] = documents(turn % 400)
    end
  end
end
moment "load"
$stdin.gets
done = true
threads.each(&:join)
kept.keys.drop(10).each { |key| kept.delete(key) }
GC.start
moment "rest"
$stdin.gets
