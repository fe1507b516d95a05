packages='erlang-base'
needs='erl'
maps='beam.smp'
limit=180

prepare() {
    cat >work.erl <<'ERL'
-module(work).
-export([main/0]).

main() ->
    Self = self(),
    Count = 200,
    [spawn(fun() -> Self ! {N, worker(N)} end) || N <- lists:seq(1, Count)],
    Sums = [receive {N, Sum} -> Sum end || N <- lists:seq(1, Count)],
    io:format("~w~n", [erlang:md5(term_to_binary(Sums))]),
    Table = ets:new(table, [set, public]),
    [ets:insert(Table, {N, binary:copy(<<N:32>>, N rem 500)}) || N <- lists:seq(1, 20000)],
    [ets:delete(Table, N) || N <- lists:seq(1, 20000, 3)],
    io:format("~w~n", [lists:sum([byte_size(B) || {_, B} <- ets:tab2list(Table)])]),
    io:format("~w~n", [byte_size(zlib:compress(binary:copy(<<"a long text, ">>, 100000)))]),
    halt(0).

worker(N) ->
    Map = lists:foldl(fun(I, M) -> M#{(I * N) rem 997 => binary:copy(<<I:16>>, I rem 300)} end, #{}, lists:seq(1, 2000)),
    lists:sum([byte_size(B) || B <- maps:values(Map)]).
ERL
    erlc work.erl
}

measure() {
    cd "$shared"
    erl -noinput -s work main
    # With the emulator's own allocators off, every block is malloc's.
    erl +Mea min -noinput -s work main
}
