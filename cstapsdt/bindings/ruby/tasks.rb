#!/usr/bin/env ruby
# Works on tasks, and fires a probe after each: see README.md.

require_relative "stapsdt"

def microseconds
  Process.clock_gettime(Process::CLOCK_MONOTONIC, :microsecond)
end

tasks = Stapsdt::Provider.new("tasks")
done = tasks.probe("task__done", task: :string, microseconds: :uint64, result: :int32)
begin
  tasks.load
rescue Stapsdt::Error => error
  puts "no probes: #{error}" # and continue
end
$stdout.sync = true
puts "process #{Process.pid} works"
(1..).each do |number|
  start = microseconds
  sleep 0.05
  done.fire("task #{number}", microseconds - start, -number)
end
