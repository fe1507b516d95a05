# A small Rails application: posts with comments, as pages and as JSON, on SQLite.
#
# One file for what a new application spreads over config/, so that everything that is measured can
# be read in one place. The database is a file of the directory LAB_PLACE, made by seed.rb.
require "rails"
require "active_record/railtie"
require "action_controller/railtie"
require "action_view/railtie"

PLACE = ENV.fetch("LAB_PLACE")
ENV["DATABASE_URL"] = "sqlite3:#{PLACE}/blog.sqlite3?pool=16"

class Blog < Rails::Application
  config.root = __dir__
  config.load_defaults 6.1
  config.eager_load = true
  config.cache_classes = true
  config.consider_all_requests_local = false
  config.secret_key_base = "0" * 64
  config.log_level = :info
  config.logger = ActiveSupport::Logger.new("#{PLACE}/rails.log", 1, 8 << 20)
  config.paths["app/views"] = ["views"]
  config.hosts.clear
  routes.append do
    resources :posts, only: %i[index show]
    get "report", to: "posts#report"
    scope "api", defaults: { format: :json } do
      get "posts", to: "api#index"
      post "posts", to: "api#create"
      get "search", to: "api#search"
    end
  end
end

# What later versions of Rails set for SQLite by themselves. A transaction that takes the lock at its
# start waits for it, where one that reads before it writes gets an error. Readers go on while somebody
# writes. And who waits lets other threads of the process run, the one that holds the lock among them.
module Patience
  def begin_db_transaction
    log("begin immediate transaction", nil) { @connection.transaction(:immediate) }
  end

  def configure_connection
    super
    @connection.execute("PRAGMA journal_mode = WAL")
    @connection.execute("PRAGMA synchronous = NORMAL")
    @connection.busy_handler { |tries| sleep(0.002) && tries < 10_000 }
  end
end
ActiveSupport.on_load(:active_record_sqlite3adapter) { prepend Patience }

Blog.initialize!
require_relative "blog"
