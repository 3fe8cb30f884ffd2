package launch

const (
	sysSetns   = 268
	sysSeccomp = 277
	sysStatx   = 291
)
