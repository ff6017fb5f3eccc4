-- Does on command what there are scripts for.

local function leaf(n)
  return n + 1
end

local function branch(n)
  local sum = 0
  for i = 1, n do
    sum = sum + leaf(i)
  end
  return sum
end

local function failing()
  error("on purpose")
end

-- down takes 20 ms at every level.
local function down(n)
  sleep(20)
  if n > 1 then
    down(n - 1)
  end
end

local function spin(ms)
  local stop = os.clock() + ms / 1000
  while os.clock() < stop do end
end

local function outer()
  for _ = 1, 4 do
    spin(50)
  end
  local stop = os.clock() + 0.1
  while os.clock() < stop do end
end

local function allocate(size)
  local text = string.rep("x", size)
  return text
end

local lock, unlock = acquire, release

local function acquire()
  lock()
end

local commands = {}

function commands.flow()
  branch(2)
  pcall(failing)
  leaf(3)
end

function commands.recursion()
  down(5)
end

function commands.work()
  outer()
end

function commands.memory()
  local all = {}
  for i = 1, 10 do
    all[i] = allocate(1024 * 1024)
  end
  return #all
end

function commands.mutex()
  lock()
  spawn("sleep(500) release()") -- any program may release the host's lock
  acquire()
  unlock()
end

function commands.ready()
  while not tracing() do
    sleep(5)
  end
end

function commands.idle()
  while tracing() do
    leaf(0) -- hooks remove themselves
    sleep(5)
  end
end

for line in io.lines() do
  commands[line]()
  print("done " .. line)
end
