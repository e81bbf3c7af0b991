# Stands for OpenWrt's /lib/functions.sh, as far as uci-to-toml.sh uses it. Reads $UCI_FILE.
config_load() {
    SECTIONS=0
    while read -r word a rest; do
        value=${rest#\'}; value=${value%\'}
        case "$word" in
            config)
                SECTIONS=$((SECTIONS + 1))
                name=$rest; name=${name#\'}; name=${name%\'}
                section=${name:-cfg$SECTIONS}
                eval "TYPE_$SECTIONS=\$a NAME_$SECTIONS=\$section"
                ;;
            option) eval "OPTION_${section}_$a=\$value" ;;
            list) eval "LIST_${section}_$a=\"\${LIST_${section}_$a}\$value
\"" ;;
        esac
    done < "$UCI_FILE"
}
config_get() { eval "$1=\${OPTION_$2_$3:-\$4}"; }
config_get_bool() { config_get "$@"; }
config_foreach() {
    at=1
    while [ "$at" -le "$SECTIONS" ]; do
        eval "type=\$TYPE_$at name=\$NAME_$at"
        [ "$type" != "$2" ] || "$1" "$name"
        at=$((at + 1))
    done
}
config_list_foreach() {
    eval "all=\$LIST_$1_$2"
    [ -z "$all" ] || printf '%s' "$all" | while IFS= read -r value; do "$3" "$value"; done
}
