#!/bin/sh
# Usage: check_isolation.sh NM OBJECT...
# Fails where an object that is compiled for wider instructions than the baseline defines a weak
# symbol: an inline function or template that the linker may pick for code of the baseline too.
nm=$1
shift
checked=0
status=0
for object in "$@"; do
  case $object in
    *_avx2.cpp.o | *_avx512.cpp.o) ;;
    *) continue ;;
  esac
  checked=$((checked + 1))
  weak=$("$nm" --defined-only --demangle "$object" | grep -E ' [VWuvw] ')
  if [ -n "$weak" ]; then
    echo "$object defines weak symbols:"
    echo "$weak"
    status=1
  fi
done
if [ "$checked" -eq 0 ]; then
  echo "no kernel object was given"
  status=1
fi
exit $status
