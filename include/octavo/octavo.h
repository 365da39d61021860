// Everything public.
#pragma once

#include "octavo/model.h"
#include "octavo/request.h"
#include "octavo/status.h"
#include "octavo/tokenizer.h"
