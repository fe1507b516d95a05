# The server's settings, the same for every allocator: LAB_WORKERS processes (0: no forks) of LAB_THREADS
# threads (five, if nobody says otherwise).
place = ENV.fetch("LAB_PLACE")
bind "unix://#{place}/socket"
environment "production"
count = ENV.fetch("LAB_THREADS", "5").to_i
threads count, count
count = ENV.fetch("LAB_WORKERS", "0").to_i
workers count
if count > 0
  preload_app!
  worker_timeout 600
  on_worker_boot { ActiveRecord::Base.establish_connection if defined?(ActiveRecord::Base) }
  before_fork { ActiveRecord::Base.connection_pool.disconnect! if defined?(ActiveRecord::Base) }
end
quiet
