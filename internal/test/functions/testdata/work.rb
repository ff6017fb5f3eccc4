# Does on command what there are scripts for.

def leaf(n)
  n + 1
end

def branch(n)
  sum = 0
  n.times { |i| sum += leaf(i) }
  sum
end

def failing
  raise ArgumentError, "on purpose"
end

def flow(_)
  branch(2)
  begin
    failing
  rescue ArgumentError
    nil
  end
  leaf(3)
end

def down(n) # takes 20 ms at every level
  sleep 0.02
  down(n - 1) if n > 1
end

def recursion(_)
  down(5)
end

def spin(ms)
  stop = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) + ms / 1000.0
  nil while Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) < stop
end

def outer
  4.times { spin(50) }
  stop = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) + 0.1
  nil while Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) < stop
end

def work(_)
  outer
end

def allocate(size)
  "x" * size
end

def memory(_)
  Array.new(10) { allocate(1 << 20) }
end

def critical(file)
  file.flock(File::LOCK_EX)
end

def lock(path)
  File.open(path) do |file|
    puts "locking"
    critical(file)
  end
end

def ready(_)
  sleep 0.005 until Functions.tracing?
end

def idle(_)
  sleep 0.005 while Functions.tracing?
end

# hostile shows what a class was asked for that the program does not ask for.
class Hostile
  class << self
    def singleton_class? = $asked += 1
    def name = $asked += 1
    def work = 1
  end
  def work = 1
end

def hostile(_)
  $asked = 0
  Hostile.new.work
  Hostile.work
  puts "hostile #{$asked}"
end

def fork_child(_)
  $child = fork do
    ready(nil)
    leaf(1)
  end
end

def wait_child(_)
  Process.wait($child)
  puts "status #{$?.exitstatus}"
end

def bench(calls)
  n = calls.to_i
  start = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond)
  n.times { |i| leaf(i) }
  puts "bench #{(Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond) - start) / n}"
end

$stdout.sync = true
$stdin.each_line do |line|
  command, argument = line.split
  send({ "fork" => "fork_child", "wait" => "wait_child" }.fetch(command, command), argument)
  puts "done #{command}"
end
