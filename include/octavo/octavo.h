// Everything public.
#pragma once

#include "octavo/engine.h"
#include "octavo/model.h"
#include "octavo/request.h"
#include "octavo/status.h"
#include "octavo/tokenizer.h"
