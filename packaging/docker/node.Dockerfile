FROM node:22-bookworm-slim
COPY --from=masu /packages/libmasu0_*.deb /tmp/
RUN dpkg -i /tmp/libmasu0_*.deb && rm /tmp/libmasu0_*.deb
COPY --from=masu /packages/masu-entrypoint /usr/local/bin/
WORKDIR /app
COPY . .
ENTRYPOINT ["masu-entrypoint"]
CMD ["node", "app.js"]
