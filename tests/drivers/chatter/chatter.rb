# Connects as a Ruby library does by default: chatter.rb LIBRARY HOST PORT USER PASSWORD SCHEMA. Prints the
# version and runs a marker statement; what is sent before it is the library's chatter.
library, host, port, user, password, schema = ARGV
MARKER = "SELECT 'ready'".freeze
case library
when 'mysql2'
  require 'mysql2'
  db = Mysql2::Client.new(host: host, port: port.to_i, username: user, password: password, database: schema)
  db.query(MARKER).to_a
  db.close
  puts Mysql2::VERSION
when 'activerecord'
  # Newer versions of Ruby no longer load it by default.
  require 'logger'
  require 'active_record'
  ActiveRecord::Base.establish_connection(adapter: 'mysql2', host: host, port: port.to_i, username: user,
                                          password: password, database: schema)
  ActiveRecord::Base.connection.select_all(MARKER).to_a
  ActiveRecord::Base.connection_pool.disconnect!
  puts ActiveRecord::VERSION::STRING
else
  abort "unknown: #{library}"
end
