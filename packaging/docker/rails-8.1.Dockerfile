FROM ruby:3.4-slim AS base
WORKDIR /rails
COPY --from=masu /packages/libmasu0_*.deb /tmp/
RUN dpkg -i /tmp/libmasu0_*.deb && rm /tmp/libmasu0_*.deb && \
    ln -s /usr/lib/"$(uname -m)"-linux-gnu/libmasu.so.0 /usr/local/lib/libmasu.so
ENV RAILS_ENV="production" \
    LD_PRELOAD="/usr/local/lib/libmasu.so"

FROM base
COPY . .
ENTRYPOINT ["/rails/bin/docker-entrypoint"]
EXPOSE 80
CMD ["./bin/rails", "server"]
