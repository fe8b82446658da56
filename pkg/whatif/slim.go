package whatif

// Slim returns copies of the objects as a dump has them.
func Slim(objects Objects) Objects { return slim(objects) }
