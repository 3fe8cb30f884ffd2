package launch

const (
	sysSetns   = 308
	sysSeccomp = 317
	sysStatx   = 332
)
