// A database that is filled, written out and read, and dumps its heap profile before and after, through jemalloc's
// names: rocksdb DIRECTORY FILLED READ.
#include <cstdio>
#include <string>

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/table.h>

extern "C" int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));

#define DO(what) do { if (!(what)) { fprintf(stderr, "line %d\n", __LINE__); return 1; } } while (0)

int main(int, char **words) {
    bool on = true;
    size_t fine = 14;
    DO(mallctl && !mallctl("prof.active", nullptr, nullptr, &on, sizeof on));
    DO(!mallctl("prof.reset", nullptr, nullptr, &fine, sizeof fine));
    rocksdb::BlockBasedTableOptions table;
    table.block_cache = rocksdb::NewLRUCache(32 << 20);
    rocksdb::Options options;
    options.create_if_missing = true;
    options.write_buffer_size = 64 << 20;
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    rocksdb::DB *db;
    DO(rocksdb::DB::Open(options, words[1], &db).ok());
    std::string value(400, 'x'), got;
    for (int i = 0; i < 50000; i++) DO(db->Put({}, std::to_string(i), value).ok());
    const char *file = words[2];
    DO(!mallctl("prof.dump", nullptr, nullptr, &file, sizeof file));
    DO(db->Flush({}).ok());
    for (int i = 0; i < 50000; i++) DO(db->Get({}, std::to_string(i), &got).ok() && got == value);
    file = words[3];
    DO(!mallctl("prof.dump", nullptr, nullptr, &file, sizeof file));
    delete db;
    puts("done");
}
