package launch

const sysSeccomp = 317
