# The application's models and controllers.
class Author < ActiveRecord::Base
  has_many :posts
end

class Post < ActiveRecord::Base
  belongs_to :author
  has_many :comments, dependent: :delete_all
  validates :title, presence: true, length: { maximum: 200 }
  validates :body, presence: true
  scope :page, ->(number) { order(:id).offset(20 * number).limit(20) }
end

class Comment < ActiveRecord::Base
  belongs_to :post
end

# Pages.
class PostsController < ActionController::Base
  def index
    @posts = Post.page(params[:page].to_i).includes(:author, :comments)
  end

  def show
    @post = Post.includes(:author, :comments).find(params[:id])
  end

  # A table that is built in memory and sent whole, as reports are.
  def report
    rows = Post.joins(:author).order(:id).limit(600).pluck(:id, :title, "authors.name", :body)
    lines = rows.map { |id, title, name, body| [id, title.inspect, name, body.split.tally.max_by(&:last).inspect].join(",") }
    render plain: lines.join("\n")
  end
end

# The same as JSON, and what changes.
class ApiController < ActionController::API
  KEPT = 2_000

  def index
    posts = Post.page(params[:page].to_i).includes(:author, :comments)
    render json: posts.as_json(include: { author: { only: :name }, comments: { only: %i[id body] } })
  end

  def create
    post = Post.create!(params.permit(:title, :body).merge(author: Author.first!))
    Post.where("id < ?", post.id - KEPT).where("id > 1000").destroy_all
    render json: { id: post.id, digest: Digest::MD5.hexdigest(post.body) }, status: :created
  end

  def search
    found = Post.where("body LIKE ?", "%#{Post.sanitize_sql_like(params[:q].to_s)}%").order(:id).limit(15)
    render json: found.map { |post| { id: post.id, title: post.title, excerpt: post.body[0, 400] } }
  end
end
