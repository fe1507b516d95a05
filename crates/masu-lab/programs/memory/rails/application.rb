# A small Rails application: posts with comments, as pages and as JSON, on SQLite.
#
# One file for what a new application spreads over config/, so that everything that is measured can
# be read in one place. The database is a file of the directory LAB_PLACE, made by seed.rb.
require "rails"
require "active_record/railtie"
require "action_controller/railtie"
require "action_view/railtie"

PLACE = ENV.fetch("LAB_PLACE")
ENV["DATABASE_URL"] = "sqlite3:#{PLACE}/blog.sqlite3?pool=16&timeout=20000"

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

# A transaction that reads before it writes may find the database changed in between, which SQLite
# answers with an error at once. One that takes the lock at its start waits for it.
module TakesLockAtStart
  def begin_db_transaction
    log("begin immediate transaction", nil) { @connection.transaction(:immediate) }
  end
end
ActiveSupport.on_load(:active_record_sqlite3adapter) { prepend TakesLockAtStart }

Blog.initialize!
require_relative "blog"
