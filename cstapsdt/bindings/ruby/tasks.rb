#!/usr/bin/env ruby
# Works on tasks, and fires a probe after each.
#
#     make -C cstapsdt
#     LD_LIBRARY_PATH=cstapsdt/out ruby cstapsdt/bindings/ruby/tasks.rb
#
# In another terminal, as root:
#
#     bpftrace -p PID -e 'usdt:*:tasks:task__done { printf("%s %d us\n", str(arg0), arg1); }'

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
