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
