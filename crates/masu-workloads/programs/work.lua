-- Strings, tables and closures on plain realloc and free.
local seed = 42
local function random(below)
  seed = (seed * 1103515245 + 12345) % 2147483648
  return seed % below
end
local kept, sum = {}, 0
for step = 1, 300000 do
  kept[#kept + 1] = string.rep("x", random(300)) .. step
  if #kept > 2000 then
    local place = random(#kept) + 1
    sum = sum + #kept[place]
    kept[place] = table.remove(kept)
  end
end
print(sum, #kept)
table.sort(kept)
print(#table.concat(kept))
local tree = {}
for step = 1, 120000 do
  local node = tree
  for level = 1, 5 do
    local key = "k" .. random(12)
    node[key] = node[key] or {}
    node = node[key]
  end
  node.value = { step, tostring(step) }
end
local function count(node)
  local total = 0
  for _, below in pairs(node) do
    if type(below) == "table" then total = total + 1 + count(below) end
  end
  return total
end
print(count(tree))
local next = coroutine.wrap(function() for step = 1, 100000 do coroutine.yield({ step }) end end)
local all = 0
for _ = 1, 100000 do all = all + next()[1] end
print(all)
