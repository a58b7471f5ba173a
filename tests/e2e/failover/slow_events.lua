-- sysbench's oltp_read_write, run until the file SWITCHOVER_STOP is there instead of for a time that is known before. An event
-- that took longer than SWITCHOVER_SLOW_US is a line, TOOK, with its begin and its end in us since 1970. So is an error that is
-- not about locks, FAILED, with what was said; it ends the run.

local ffi = require("ffi")
ffi.cdef [[
typedef struct { long seconds, microseconds; } event_time;
int gettimeofday(event_time *time, void *zone);
]]

require("oltp_read_write")

local run = event
local slow = tonumber(os.getenv("SWITCHOVER_SLOW_US"))
local begun = false

local function now()
   local time = ffi.new("event_time")
   ffi.C.gettimeofday(time, nil)
   return tonumber(time.seconds) * 1000000 + tonumber(time.microseconds)
end

local function tell(...)
   io.stdout:write(string.format(...))
   io.stdout:flush()
end

function event(thread)
   local file = io.open(os.getenv("SWITCHOVER_STOP"))
   if file then
      file:close()
      return true
   end
   local from = now()
   run(thread)
   local to = now()
   if not begun then
      begun = true
      tell("BEGUN\n")
   end
   if to - from >= slow then
      tell("TOOK %.0f %.0f\n", from, to)
   end
end

function sysbench.hooks.sql_error_ignorable(failure)
   tell("FAILED %s %s\n", failure.sql_errno, failure.sql_errmsg:gsub("\n", " "))
   return false
end
