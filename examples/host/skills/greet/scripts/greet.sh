#!/bin/sh
printf "Hello %s, from the host.\n" "$1"
