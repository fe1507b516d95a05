# frozen_string_literal: true

require "rbconfig"

# masu, a memory allocator for Linux that gives memory back.
#
# +masu exec ruby app.rb+ runs a program on it, unchanged. The library serves a process from its start, so requiring
# this file changes nothing: it says where things are.
module Masu
  VERSION = "@version@"

  # What this machine is called among the files of the gem.
  MACHINE = RbConfig::CONFIG["host_cpu"].sub("amd64", "x86_64").sub("arm64", "aarch64")
  private_constant :MACHINE

  # The path of the shared library, for +LD_PRELOAD+.
  def self.library
    file("lib/libmasu.so.0")
  end

  # The path of the command.
  def self.command
    file("bin/masu")
  end

  # Whether this process runs on masu, this gem's or another: the command of `cargo install` calls it libmasu-….so.
  def self.active?
    # Files may have names in any encoding.
    File.foreach("/proc/self/maps", mode: "rb").any? { |line| line.match?(%r{/libmasu(-\h+)?\.so}) }
  end

  def self.file(name)
    path = File.expand_path("../native/#{MACHINE}/#{name}", __dir__)
    return path if File.exist?(path)

    machines = Dir.children(File.expand_path("../native", __dir__)).sort.join(" and ")
    raise "this gem has masu for #{machines}, not for #{RUBY_PLATFORM}: build it from the sources"
  end
  private_class_method :file
end
