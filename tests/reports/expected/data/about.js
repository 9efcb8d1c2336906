var about = {
 "any_adapter": "A cache must not be asked for .float(). It was. Only 4.50 did so. owner/name#7 owner/name#8",
 "cache_float": "A cache must not be asked for .float(). It was. Only 4.50 did so. owner/name#7 owner/name#8"
}
