# Speaks with whoever watches this program's memory.
module Marks
  module_function

  def at(name, live = nil, verb: "mark")
    $stdout.puts [verb, name, live].compact.join(" ")
    $stdout.flush
    $stdin.gets
  end

  def rest(name, live = nil) = at(name, live, verb: "rest")

  # Runs the block and says how long it took: on the clock, and on the processors.
  def timed
    clocks = [Process::CLOCK_MONOTONIC, Process::CLOCK_PROCESS_CPUTIME_ID]
    before = clocks.map { |clock| Process.clock_gettime(clock) }
    result = yield
    spent = clocks.zip(before).map { |clock, start| Process.clock_gettime(clock) - start }
    puts "figure seconds #{spent[0]}", "figure processor #{spent[1]}"
    result
  end
end
