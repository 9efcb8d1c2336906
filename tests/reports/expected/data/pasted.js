var pasted = {
 "patterns": {
  "breaks": "\\r\\n|[\\r\\x0b\\x0c\\x1c-\\x1e\\x85\\u2028\\u2029]",
  "added": "^[ \\t]*\\+ [\\w.-]+==",
  "removed": "^[ \\t]*- [\\w.-]+==.*$",
  "shown": "^Name: ([^ \\t\\n]+)[ \\t]*\\n(?:.*)Version: |^[ \\t]*(transformers?|torch|pytorch|accelerate|peft|trl|diffusers|tokenizers|safetensors|huggingface[-_]hub|datasets|bitsandbytes|deepspeed|vllm|xformers|torchao|triton|flash[-_]attn|sentence[-_]transformers|timm|optimum[-_]quanto|llamafactory|ms[-_]swift|unsloth[-_]zoo|unsloth|axolotl|python|numpy)[ \\t]*\\n(?=v?\\d+\\.\\d)",
  "words": "^[^\\w\\n#]*[a-z]\\w* (?:\\w+ ){3}|^```|[\\u4e00-\\u9fff]",
  "lead": "[ \\t]*(?:[>|]+|[-*•+~](?=[ \\t])|-(?=[a-z]{2})|(?:\\([\\w.-]+\\)[ \\t]*)?[^ \\t]*[$%](?=[ \\t])|\\[(?:rank\\d+|default\\d+|\\d+|pip\\d?|conda|bug|issue)\\]:?|\\[\\w+\\.py:\\d+\\]|🤗|\\[?(?:debug|info|warning|error)(?:\\|[^\\]\\n]{0,80})?(?:\\]:?|:|(?=[ \\t]))|\\[?\\d{4}-\\d\\d-\\d\\d[T ][\\d:.,]+(?:Z|[+-][\\d:]+)?\\]?|\\[?(?:\\d\\d-\\d\\d )?\\d\\d:\\d\\d:\\d\\d[\\d.,]*\\]?|[a-z]{3} [ \\d]\\d \\d\\d:\\d\\d:\\d\\d [^ \\t]+ [^ \\t:\\[]+(?:\\[\\d+\\])?:)[ \\t]*",
  "skip": "#|attempting uninstall|found existing|(?:successfully )?uninstall|collecting |downloading|using cached",
  "installed": "successfully installed ",
  "archive": "(?<![^ \\t])([A-Za-z][\\w.-]*?)-(\\d[\\w.+!]*)(?![^ \\t])",
  "pin": "([A-Za-z][\\w.-]*)(?:\\[[\\w,.-]*\\])?[ \\t]*==[ \\t]*v?(\\d+(?:\\.\\w+)*(?:[+!-]\\w+(?:\\.\\w+)*)?)",
  "have": "(transformers?|torch|pytorch|accelerate|peft|trl|diffusers|tokenizers|safetensors|huggingface[-_]hub|datasets|bitsandbytes|deepspeed|vllm|xformers|torchao|triton|flash[-_]attn|sentence[-_]transformers|timm|optimum[-_]quanto|llamafactory|ms[-_]swift|unsloth[-_]zoo|unsloth|axolotl|python|numpy)[ \\t]+v?\\d[^()]*\\(you have v?(\\d+(?:\\.\\w+)*(?:[+!-]\\w+(?:\\.\\w+)*)?)\\)",
  "satisfied": "requirement already satisfied: ([A-Za-z][\\w.-]*)[^()]*(?:\\(from [^()]*\\)[ \\t]*)?\\(v?(\\d+(?:\\.\\w+)*(?:[+!-]\\w+(?:\\.\\w+)*)?)\\)",
  "version": "(?!(?:cuda|cudnn|nvidia|nccl|rocm|driver|kernel|gcc|clang|cmake|libc|os)(?![\\w.-]))([A-Za-z][\\w. -]*?) version(?: ?\\([^()]*\\))?[ \\t]*[:=][ \\t]*(?:v?(\\d+(?:\\.\\w+)*(?:[+!-]\\w+(?:\\.\\w+)*)?)|(not installed|not found|not available))",
  "row": "(?!(?:cuda|cudnn|nvidia|nccl|rocm|driver|kernel|gcc|clang|cmake|libc|os)(?![\\w.-]))([A-Za-z_][\\w.-]*)(?:[ \\t]{2,}|\\t|[ \\t]*\\|[ \\t]*)v?(\\d+(?:\\.\\w+)*(?:[+!-]\\w+(?:\\.\\w+)*)?)(?:[ \\t].*|\\|.*)?$",
  "within": "(?<![\\w./-])(transformers?|torch|pytorch|accelerate|peft|trl|diffusers|tokenizers|safetensors|huggingface[-_]hub|datasets|bitsandbytes|deepspeed|vllm|xformers|torchao|triton|flash[-_]attn|sentence[-_]transformers|timm|optimum[-_]quanto|llamafactory|ms[-_]swift|unsloth[-_]zoo|unsloth|axolotl|python|numpy)(?:[ \\t]*(?:版本)?(?:==?|:|\\uff1a|号|是|为)[ \\t]*|[ \\t](?:is )?(?=v?\\d+\\.))v?(\\d+(?:\\.\\w+)*(?:[+!-]\\w+(?:\\.\\w+)*)?)",
  "other": "(?:from|than|before|until|after|since|instead of|fixed in|works? (?:on|in|with)|grad(?:e|ed|ing) to|build|built for)[ \\t]{1,3}$",
  "named": "(?<![\\w./-])(transformers?|torch|pytorch|accelerate|peft|trl|diffusers|tokenizers|safetensors|huggingface[-_]hub|datasets|bitsandbytes|deepspeed|vllm|xformers|torchao|triton|flash[-_]attn|sentence[-_]transformers|timm|optimum[-_]quanto|llamafactory|ms[-_]swift|unsloth[-_]zoo|unsloth|axolotl|python|numpy)(?![\\w/-])",
  "number": "\\d\\.\\d"
 },
 "aliases": {
  "pytorch": "torch",
  "pytorch-cpu": "torch",
  "pytorch-gpu": "torch",
  "torchtriton": "triton",
  "hf-hub": "huggingface-hub",
  "swift": "ms-swift",
  "transformer": "transformers"
 }
}
