require_relative "application"
run Rails.application
