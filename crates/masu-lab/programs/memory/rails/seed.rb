# Makes the database: 1000 posts with texts of 0.2 to 12 kB, and up to 12 comments each.
require_relative "application"
WORDS = Array.new(400) { |n| (n * 7919 % 99_991).to_s(36) + "aeiou"[n % 5] * (n % 4) }.freeze

def text(random, most)
  Array.new(1 + random.rand(most)) { WORDS[random.rand(WORDS.size)] }.join(" ")
end

ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define do
  create_table(:authors) { |t| t.string :name }
  create_table(:posts) do |t|
    t.references :author
    t.string :title
    t.text :body
    t.timestamps
  end
  create_table(:comments) do |t|
    t.references :post
    t.text :body
    t.timestamps
  end
end
random = Random.new(42)
authors = Array.new(20) { |n| Author.create!(name: "author #{n}") }
Post.transaction do
  1000.times do |n|
    body = text(random, n % 10 == 0 ? 2000 : 300)
    post = Post.create!(author: authors[n % 20], title: text(random, 8), body: body)
    random.rand(12).times { post.comments.create!(body: text(random, 40)) }
  end
end
# The servers get copies of the file alone.
ActiveRecord::Base.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
