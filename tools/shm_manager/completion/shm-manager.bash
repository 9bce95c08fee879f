# shellcheck shell=bash
# Completes shm-manager's commands, options and values in bash.

_shm_manager() {
  # bash takes --sort=age apart at the '='.
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  if [[ $current == '=' ]]; then
    current=''
  elif [[ $previous == '=' ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi

  local command='' word
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ $word != -* ]]; then command=$word && break; fi
  done

  local words=''
  case $previous in
    --sort) words='name bytes resident age holders state' ;;
    --group) words='pid' ;;
    --color) words='auto always never' ;;
    --log-level) words='debug info warning error' ;;
    --config | --socket)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
      return
      ;;
    --prefix | --watch | --idle-exit | --sweep | --max-clients | --max-names | --max-rate | --listen-fd)
      # What only the user knows.
      COMPREPLY=()
      return
      ;;
    *)
      case $command in
        '') words='status reap doctor serve --help --version' ;;
        status)
          words='--json --prometheus --watch --sort --reverse --group --prefix --color
            --require-manager --help'
          ;;
        reap) words='--dry-run --json --prefix --help' ;;
        doctor) words='--json --prefix --help' ;;
        serve)
          words='--socket --prefix --config --idle-exit --sweep --max-clients --max-names --max-rate
            --log-level --private --listen-fd --help'
          ;;
      esac
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -F _shm_manager shm-manager
