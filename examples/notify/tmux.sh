#!/bin/sh
# Show an event in the status line of each tmux client: dbg-broker serve --on-event ~/tmux.sh
set -eu

# tmux expands text after a #, so each # is doubled.
text=$(jq -r '.sentence' | sed 's/#/##/g')
tmux list-clients -F '#{client_name}' | while read -r client; do
    tmux display-message -c "$client" -d 10000 "$text"
done
