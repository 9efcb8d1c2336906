var pins = {
 "packages": [
  "accelerate==1.5.2",
  "torch==2.13.0",
  "transformers==4.49.0",
  "transformers==4.50.0",
  "transformers==4.50.1",
  "transformers==4.51.0"
 ],
 "environments": {
  "4.49.0": ["3.11", [0, 1, 2]],
  "4.50.0": ["3.11", [0, 1, 3]],
  "4.50.1": ["3.11", [0, 1, 4]],
  "4.51.0": ["3.11", [0, 1, 5]]
 }
}
