#!/bin/sh
# A million and a half lines without order.
awk 'BEGIN { for (i = 0; i < 1500000; i++) printf "%d line %d\n", i * 7919 % 1500007, i % 977 }' >lines
