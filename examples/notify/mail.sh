#!/bin/sh
# Send an event by mail to the user who runs the broker: dbg-broker serve --on-event ~/mail.sh
set -eu

event=$(cat)
{
    echo "Subject: dbg-broker: $(printf %s "$event" | jq -r '"\(.event) \(.job // .address // "")"')"
    echo
    printf %s "$event" | jq -r '.sentence, .next // empty'
} | /usr/sbin/sendmail "$(id -un)"
