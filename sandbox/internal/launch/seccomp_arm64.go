package launch

const sysSeccomp = 277
