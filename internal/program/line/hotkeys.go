package line

import _ "embed"

// Hotkeys lists the keys, for /hotkeys.
//
//go:embed hotkeys.txt
var Hotkeys string
