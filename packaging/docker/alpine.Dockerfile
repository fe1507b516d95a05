FROM alpine:3.22
COPY --from=masu /packages/libmasu.so.0 /usr/local/lib/
COPY --from=masu /packages/masu-entrypoint /usr/local/bin/
WORKDIR /app
COPY . .
ENTRYPOINT ["masu-entrypoint"]
CMD ["./app"]
