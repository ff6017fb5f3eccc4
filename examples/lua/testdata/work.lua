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

local function tail(n)
  return leaf(n)
end

local function failing()
  error("on purpose")
end

local function generate()
  coroutine.yield(leaf(1))
  coroutine.yield(leaf(2))
end

local function add(_, n)
  local sum = n + leaf(3)
  return sum
end

-- down takes 20 ms at every level.
local function down(n)
  sleep(20)
  if n > 1 then
    down(n - 1)
  end
end

local function allocate(size)
  local text = string.rep("x", size)
  return text
end

local function critical()
  acquire()
  release()
  return true
end

-- spin computes until so many milliseconds of processor time are gone.
local function spin(ms)
  local stop = os.clock() + ms / 1000
  local x = 1
  while os.clock() < stop do
    for i = 1, 1000 do
      x = x * 3 % 1000003
    end
  end
  return x
end

local function outer()
  local x = spin(150)
  for _ = 1, 3 do
    x = x + spin(100)
  end
  local before = os.clock()
  while os.clock() < before + 0.2 do end
  return x
end

local commands = {}

function commands.ready()
  while not tracing() do
    sleep(5)
  end
end

function commands.idle()
  while tracing() do
    sleep(5)
    leaf(0)
  end
end

function commands.flow()
  branch(2)
  tail(1)
  local ok = pcall(failing)
  assert(not ok)
  leaf(3)
  assert(setmetatable({}, {__add = add}) + 1 == 5)
end

function commands.catch()
  pcall(failing)
end

function commands.coroutines()
  local next = coroutine.wrap(generate)
  assert(next() == 2)
  leaf(10)
  assert(next() == 3)
end

function commands.memory()
  local all = {}
  for i = 1, 10 do
    all[i] = allocate(1024 * 1024)
  end
  return #all
end

function commands.lock()
  spawn("acquire() print('locked') sleep(1000) release()")
  sleep(50)
  critical()
end

function commands.recursion()
  down(5)
end

function commands.time()
  outer()
end

for command in io.lines() do
  commands[command]()
  print("done " .. command)
end
