"""What the server does in one step, since between two commands a worker may sleep or die."""

CREATE_GROUP_FIRST = """
local start = redis.call('EXISTS', KEYS[1]) == 0 and '$' or '0'
local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], start, 'MKSTREAM')
if made.err and not string.find(made.err, 'BUSYGROUP') then return made end
return start
"""

CLAIM_NAME = """
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""

RELEASE_NAME = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""

SET_IDLE = """
local group, consumer, token, idle = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local owner = redis.call('GET', KEYS[2])
if owner and owner ~= token then
  return redis.error_reply('NAMELOST another process holds the name ' .. consumer)
end
local lost, trimmed = {}, {}
for i = 5, #ARGV do
  local mine = redis.call('XPENDING', KEYS[1], group, ARGV[i], ARGV[i], 1, consumer)
  if #mine == 1 then
    local kept = redis.call('XCLAIM', KEYS[1], group, consumer, 0, ARGV[i], 'IDLE', idle, 'JUSTID')
    if #kept == 0 then trimmed[#trimmed + 1] = ARGV[i] end
  else
    lost[#lost + 1] = ARGV[i]
  end
end
return {lost, trimmed}
"""
"""Sets the idle time of those entries that are still this consumer's own, and names the others:
those of another consumer, and those that are gone from the stream (the claim drops them then).

A bare XCLAIM has no owner check: a worker that slept would take its entry back from whoever
reclaimed it. JUSTID leaves the delivery count alone.
"""

WHEREABOUTS = """
local group = ARGV[1]
local delivered = '0-0'
local made = redis.pcall('XINFO', 'GROUPS', KEYS[1])
if made.err then
  if not string.find(made.err, 'no such key') then return made end
  made = {}
end
for _, one in ipairs(made) do
  local about = {}
  for i = 1, #one, 2 do about[one[i]] = one[i + 1] end
  if about['name'] == group then delivered = about['last-delivered-id'] end
end
local function parts(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
end
local last_ms, last_seq = parts(delivered)
local lost = {}
for i = 2, #ARGV do
  local id = ARGV[i]
  local pending = redis.pcall('XPENDING', KEYS[1], group, id, id, 1)
  if pending.err and not string.find(pending.err, 'NOGROUP') then return pending end
  if pending.err or #pending == 0 then
    local ms, seq = parts(id)
    local unread = ms > last_ms or (ms == last_ms and seq > last_seq)
    if not unread or #redis.call('XRANGE', KEYS[1], id, id) == 0 then lost[#lost + 1] = id end
  end
end
return lost
"""
"""Which of these entries are lost: neither pending nor waiting to be read. An entry that was
delivered and is not pending is lost too, if its row is still as it was before this look.
"""
