# Rack without Rails: documents in memory, answered as JSON and as text.
require "json"
require "digest"

DOCUMENTS = {}
LOCK = Mutex.new
SEED = Random.new(42)
2_000.times do |id|
  DOCUMENTS[id] = { "id" => id, "title" => "document #{id}", "body" => "word#{id % 97} " * (1 + SEED.rand(400)) }
end

# What a request says, and what it gets.
class Service
  def call(env)
    query = Rack::Utils.parse_query(env["QUERY_STRING"])
    case [env["REQUEST_METHOD"], env["PATH_INFO"]]
    in ["GET", "/posts"] then page(query["page"].to_i)
    in ["GET", %r{\A/posts/(\d+)\z}] then one($1.to_i)
    in ["GET", "/api/search"] then search(query["q"].to_s)
    in ["POST", "/api/posts"] then replace(JSON.parse(env["rack.input"].read))
    in ["GET", "/report"] then report
    in ["GET", "/api/posts"] then page(query["page"].to_i)
    else [404, {}, ["nothing here"]]
    end
  end

  private

  def json(value, status = 200)
    body = JSON.generate(value)
    [status, { "content-type" => "application/json", "content-length" => body.bytesize.to_s }, [body]]
  end

  def all = LOCK.synchronize { DOCUMENTS.values }

  def page(number)
    found = all[number * 20 % 2_000, 20]
    json(found.map { |document| document.merge("words" => document["body"].split.tally) })
  end

  def one(id) = json(LOCK.synchronize { DOCUMENTS[id % 2_000] })

  def search(word)
    found = all.select { |document| document["body"].include?(word) }.first(15)
    json(found.map { |document| document.merge("body" => document["body"][0, 400]) })
  end

  def replace(document)
    id = Digest::MD5.hexdigest(document["body"]).to_i(16) % 2_000
    LOCK.synchronize { DOCUMENTS[id] = document.merge("id" => id) }
    json({ "id" => id }, 201)
  end

  def report
    text = all.first(600).map { |document| document.values_at("id", "title").join(",") + "," + document["body"].upcase }
    body = text.join("\n")
    [200, { "content-type" => "text/plain", "content-length" => body.bytesize.to_s }, [body]]
  end
end

run Service.new
