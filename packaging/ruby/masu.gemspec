# frozen_string_literal: true

Gem::Specification.new do |spec|
  spec.name = "masu"
  spec.version = "@version@"
  spec.summary = "A memory allocator for Linux that gives memory back"
  spec.description = "The command masu and the library libmasu.so: any Ruby program on an allocator whose memory " \
                     "shrinks again, without a change to it."
  spec.authors = ["The masu authors"]
  spec.licenses = ["MIT", "Apache-2.0"]
  spec.required_ruby_version = ">= 2.6"
  spec.files = Dir["{exe,lib,native}/**/*", "README.md", "LICENSE-*", "THIRD-PARTY-NOTICES.txt"].select { |name| File.file?(name) }.sort
  spec.bindir = "exe"
  spec.executables = ["masu"]
  spec.metadata = { "rubygems_mfa_required" => "true" }
end
