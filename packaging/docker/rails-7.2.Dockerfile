FROM ruby:3.3-slim AS base
WORKDIR /rails
COPY --from=masu /packages/libmasu0_*.deb /tmp/
RUN dpkg -i /tmp/libmasu0_*.deb && rm /tmp/libmasu0_*.deb
ENV RAILS_ENV="production"

FROM base
COPY . .
ENTRYPOINT ["/rails/bin/docker-entrypoint"]
EXPOSE 3000
CMD ["./bin/rails", "server"]
