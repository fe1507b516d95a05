packages=lua5.4
needs=lua5.4
maps=lua5.4

measure() {
    status=0
    lua5.4 - <<'LUA' || status=$?
local seed = 42
local function rand(n) seed = (seed * 1103515245 + 12345) % 2147483648; return seed % n end
local kept, sum = {}, 0
for i = 1, 150000 do
  kept[#kept + 1] = string.rep("x", rand(300)) .. i
  if #kept > 2000 then sum = sum + #table.remove(kept, rand(#kept) + 1) end
end
print(sum, #kept)
table.sort(kept)
print(#table.concat(kept), (kept[1]:gsub("x", "")))
local co = coroutine.wrap(function() for i = 1, 20000 do coroutine.yield({ i, tostring(i) }) end end)
local n = 0
for i = 1, 20000 do n = n + co()[1] end
print(n)
local weak = setmetatable({}, { __mode = "v" })
for i = 1, 50000 do weak[i] = { i } end
collectgarbage()
print(next(weak) == nil)
os.exit(3, true)
LUA
    echo "exit $status"
}
